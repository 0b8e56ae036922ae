"""JSON Schemas of messages: their parts, sample values, and classes made from them."""
