"""What a running statement needs: session, frame, steps."""
