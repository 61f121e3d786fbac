"""What every part of the package uses: files, consoles, units, figures, plug-ins."""
