"""Found by Django: the commands of the application."""
