"""One small file per kind of server: what is its own in how it is recognised, asked and told things."""
