"""Static catalogs of environments: a folder with an index, their source, and the cards that prove them."""
