"""SGLD with control variates, in normal coordinates, with underdamped dynamics."""
