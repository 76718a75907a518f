"""`slotline chat`: a small terminal chat."""
