"""What is promised of learning from users with many examples: how many users are enough, and how well examples tell."""
