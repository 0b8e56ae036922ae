"""Task directories of Harbor as an environment: `harbor:PATH`."""
