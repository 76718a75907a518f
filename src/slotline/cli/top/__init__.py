"""`slotline top`: the live terminal view."""
