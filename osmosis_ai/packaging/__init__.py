"""Bundles: a rollout project as a wheel that can run in a sandbox."""

from osmosis.pure.bundle import BundleInfo
from osmosis.shell.packaging.bundle import BUNDLES_DIR, BundleBuildError, build_bundle, inspect_bundle
from osmosis.shell.packaging.project import find_package, find_package_dir, package_roots, project_dir_for

__all__ = [
    "BUNDLES_DIR",
    "BundleBuildError",
    "BundleInfo",
    "build_bundle",
    "find_package",
    "find_package_dir",
    "inspect_bundle",
    "package_roots",
    "project_dir_for",
]
