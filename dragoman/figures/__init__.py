"""Pictures of the Transformer's parts, each computed by the very code that trains and translates."""
