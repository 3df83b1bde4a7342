"""Every figure in the documents has its command here."""
