"""The judge: the question it is asked, the verdict it gives, and the check that it can be trusted."""
