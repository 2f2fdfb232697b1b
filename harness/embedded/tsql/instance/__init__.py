"""What all sessions of an instance share."""
