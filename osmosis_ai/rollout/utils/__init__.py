"""Evidence and other things that programs around rollouts need."""
