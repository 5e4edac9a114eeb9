"""What pyproject.toml can't say: beside the packages that are found, the chapters of docs/course are one."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["refnp*", "gradcheck*"]), "refnp.course.chapters"])
