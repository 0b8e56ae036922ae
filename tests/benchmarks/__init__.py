"""The benchmarks, and the figures that the documentation takes from them."""
