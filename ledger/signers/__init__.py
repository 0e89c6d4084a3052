"""What signs and is no file of this machine: keys in an ssh-agent or a KMS, and entry keys that they delegate to."""
