"""Stage cases, error measures and acceptance: what ``nox -s numerics`` runs."""
