"""What a request names and does not hold: fetching it, and opening it. Both are done for strangers, and are bounded."""
