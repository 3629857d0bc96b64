"""manifests.py FOLDER: compares the manifests of Kubernetes jobs in FOLDER with the schemas of Kubeflow's packages.

Prints a line for each manifest. The exit code is 1 where a field is unknown, has a wrong type or is missing. It is 77,
with the reason, where the packages are not installed. A copy of each manifest gets faults, which must be found.
"""

import copy
import pathlib
import re
import sys

try:
    import kubernetes.client
    import yaml
    from kubeflow.training import models as operator
    from kubeflow_trainer_api import models as trainer
except ImportError as missing:
    print(f"skipped: {missing}; ./run test installs the group kubernetes of cmake/python_packages.txt")
    sys.exit(77)

KINDS = {
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): trainer.JobsetV1alpha2JobSet,
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): trainer.TrainerV1alpha1TrainJob,
    ("kubeflow.org/v1", "PyTorchJob"): operator.KubeflowOrgV1PyTorchJob,
    ("kubeflow.org/v1", "MPIJob"): operator.KubeflowOrgV1MPIJob,
}
PLAIN = {"str": str, "int": int, "bool": bool, "float": (int, float), "object": object}


class Fault(Exception):
    """Says what is wrong with a manifest, and where."""


def check_operator(value, kind, place):
    """Models of the Training Operator and of Kubernetes' client name the types of fields in `openapi_types`."""
    many = re.fullmatch(r"(list|dict)[\[(](?:str, )?(.+)[\])]", kind)
    if many:
        if not isinstance(value, {"list": list, "dict": dict}[many[1]]):
            raise Fault(f"{place}: {value!r}: expected {kind}")
        entries = value.items() if many[1] == "dict" else enumerate(value)
        for name, entry in entries:
            check_operator(entry, many[2], f"{place}.{name}")
    elif kind in PLAIN:
        if not isinstance(value, PLAIN[kind]):
            raise Fault(f"{place}: {value!r}: expected {kind}")
    else:
        model = getattr(operator, kind, None) or getattr(kubernetes.client, kind)
        attributes = {field: name for name, field in model.attribute_map.items()}
        if not isinstance(value, dict):
            raise Fault(f"{place}: {value!r}: expected {kind}")
        for field in value:
            if field not in attributes:
                raise Fault(f"{place}.{field}: {kind} has no such field")
            check_operator(value[field], model.openapi_types[attributes[field]], f"{place}.{field}")
        try:
            model(**{attributes[field]: entry for field, entry in value.items()})
        except ValueError as missing:
            raise Fault(f"{place}: {missing}") from missing


def lost(before, after, place):
    """Finds fields that a model has not taken."""
    if isinstance(before, dict):
        for name, entry in before.items():
            if name not in (after or {}):
                raise Fault(f"{place}.{name}: there is no such field")
            lost(entry, after[name], f"{place}.{name}")
    elif isinstance(before, list):
        for at, entry in enumerate(before):
            lost(entry, after[at], f"{place}.{at}")


def check(manifest):
    what = (manifest.get("apiVersion"), manifest.get("kind"))
    model = KINDS.get(what)
    if model is None:
        raise Fault(f"apiVersion and kind {what}: expected one of {sorted(KINDS)}")
    if hasattr(model, "openapi_types"):
        check_operator(manifest, model.__name__, manifest["kind"])
        return
    try:
        lost(manifest, model.from_dict(manifest).to_dict(), manifest["kind"])
    except ValueError as wrong:  # also pydantic's errors
        raise Fault(str(wrong)) from wrong


def containers(part):
    """Yields all lists of containers."""
    if isinstance(part, dict):
        for name, entry in part.items():
            if name == "containers":
                yield entry
            yield from containers(entry)
    elif isinstance(part, list):
        for entry in part:
            yield from containers(entry)


def finds_faults(manifest):
    """Returns whether the check finds misspelt fields, outside and inside, and a wrong type."""
    found = 0
    for spoil in (
        lambda spoilt: spoilt["spec"].update(replicaz=1),
        lambda spoilt: next(containers(spoilt))[0].update(volumeMount=[]),
        lambda spoilt: next(containers(spoilt))[0].update(name=5),
    ):
        spoilt = copy.deepcopy(manifest)
        spoil(spoilt)
        try:
            check(spoilt)
        except Fault:
            found += 1
    return found == 3


def main(folder):
    bad = 0
    files = sorted(pathlib.Path(folder).glob("*.yaml"))
    for file in files:
        manifest = yaml.safe_load(file.read_text(encoding="utf-8"))
        try:
            check(manifest)
            if not finds_faults(manifest):
                raise Fault("a copy with a fault was taken for a good one")
            print(f"{file.name}: {manifest['apiVersion']} {manifest['kind']} is as its schema says")
        except Fault as fault:
            print(f"{file.name}: {fault}")
            bad += 1
    if len(files) < len(KINDS):
        print(f"{folder}: {len(files)} manifests: expected {len(KINDS)}")
        bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
