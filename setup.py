"""Maps the repository's folders to the import name ``schedulearn``; everything else is in pyproject.toml.

Top-level modules called ``api`` or ``metrics`` would collide with other people's.
"""

import runpy

from setuptools import find_packages, setup

runpy.run_path("scripts/unasync.py", run_name="__main__")
FOLDERS = {
    "features": "features",
    "api": "api",
    "scheduler": "scheduler",
    "metrics": "metrics",
    "worker": "worker_images/sdk",
}
packages, package_dir = ["schedulearn"], {"schedulearn": "src/schedulearn"}
for name, folder in FOLDERS.items():
    package_dir[f"schedulearn.{name}"] = folder
    packages += [f"schedulearn.{name}", *(f"schedulearn.{name}.{p}" for p in find_packages(folder))]
# The image recipes are data: the service builds images and local environments from them.
package_dir["schedulearn.worker_images"] = "worker_images"
packages.append("schedulearn.worker_images")
setup(
    packages=packages,
    package_dir=package_dir,
    package_data={
        "schedulearn": ["py.typed"],
        "schedulearn.api": ["static/**/*"],
        "schedulearn.scheduler": ["store/migrations/*.mako", "sim/measured/*"],
        "schedulearn.worker_images": ["Dockerfile*", "*.sh", "*.env", "examples/**/*"],
    },
)
