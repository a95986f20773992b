"""The build check: every specialized kernel that a deployment would use, compiled without a GPU, held against golden/."""
