"""Many environments of one server: Gymnasium's vector interface and the batched sessions below it."""
