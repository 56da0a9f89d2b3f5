"""Gibbs sampling by data augmentation."""
