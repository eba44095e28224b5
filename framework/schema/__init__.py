"""Types and columns: the lattice of types, and the change from one schema to another."""
