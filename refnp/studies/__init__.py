"""Studies: the models of this book trained, evaluated and drawn on its tasks, from the command line or a program."""
