"""`slotline bench`: load and latency of a gateway that runs."""
