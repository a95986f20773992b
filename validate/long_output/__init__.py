"""What only long outputs show: errors that grow with the number of decoded tokens."""
