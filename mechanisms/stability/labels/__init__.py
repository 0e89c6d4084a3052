"""What is done with votes beside answering by a class: labels for a student, and soft labels."""
