"""What a model with a kernel of parts is made of: effects of columns and of pairs of columns, which add up to it."""
