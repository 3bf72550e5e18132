"""Recipes of images and local environments, as data: `schedulearn.worker_images` is their home once installed."""
