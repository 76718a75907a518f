"""What the gateway lets be seen of itself."""
