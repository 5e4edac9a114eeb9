"""Chapter 3, the models: Transformers and neural processes, built from layers."""
