"""What is written as instructions of the processor, since compilers do not find them: vectors, products of whole
numbers, places in a row that reach a level."""
