"""What models are trained on: functions to regress, sentences to translate, sequences to transform."""
