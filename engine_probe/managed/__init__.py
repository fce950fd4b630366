"""The parts of the managed engine: what to install, how pip is run, what is kept between two tries."""
