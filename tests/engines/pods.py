"""pods.py MANIFEST: lists the pods that the controller of a JobSet or a PyTorchJob makes of MANIFEST.

Prints a line for each pod, with tabs between: the pod's names on the network, then VARIABLE=VALUE for each variable of
its container. The exit code is 77, with the reason, where PyYAML is not installed.
Source: the controllers of JobSet, v1alpha2, and of Kubeflow's Training Operator, version 1.
"""

import sys

try:
    import yaml
except ImportError as missing:
    print(f"skipped: {missing}; ./run test installs the group kubernetes of cmake/python_packages.txt")
    sys.exit(77)

COMPLETION_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def variables(container, fields):
    """Yields what the manifest sets. `fields` are values that it takes from its pod."""
    for variable in container.get("env", []):
        value = variable.get("value")
        if value is None:
            value = fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        yield f"{variable['name']}={value}"


def pods_of_job_set(manifest):
    name = manifest["metadata"]["name"]
    subdomain = manifest["spec"].get("network", {}).get("subdomain", name)
    for job in manifest["spec"]["replicatedJobs"]:
        for replica in range(job.get("replicas", 1)):
            spec = job["template"]["spec"]
            for index in range(spec["completions"]):
                host = f"{name}-{job['name']}-{replica}-{index}"
                container = spec["template"]["spec"]["containers"][0]
                own = [f"JOB_COMPLETION_INDEX={index}"]
                yield f"{host} {host}.{subdomain}", own + list(variables(container, {COMPLETION_INDEX: str(index)}))


def pods_of_pytorch_job(manifest):
    """Knows jobs without an elastic policy, with one process in each pod."""
    name, replicas = manifest["metadata"]["name"], manifest["spec"]["pytorchReplicaSpecs"]
    ranks = sum(part.get("replicas", 1) for part in replicas.values())
    ports = replicas["Master"]["template"]["spec"]["containers"][0]["ports"]
    port = next(one["containerPort"] for one in ports if one["name"] == "pytorchjob-port")
    for kind in ("Master", "Worker"):
        for index in range(replicas[kind].get("replicas", 1)):
            rank = index + (kind == "Worker")
            own = [
                "PYTHONUNBUFFERED=1",
                f"MASTER_PORT={port}",
                f"PET_MASTER_PORT={port}",
                f"MASTER_ADDR={name}-master-0",
                f"PET_MASTER_ADDR={name}-master-0",
                f"WORLD_SIZE={ranks}",
                f"RANK={rank}",
                "PET_NPROC_PER_NODE=1",
                f"PET_NODE_RANK={rank}",
                f"PET_NNODES={ranks}",
            ]
            container = replicas[kind]["template"]["spec"]["containers"][0]
            yield f"{name}-{kind.lower()}-{index}", own + list(variables(container, {}))


def main(path):
    with open(path, encoding="utf-8") as file:
        manifest = yaml.safe_load(file)
    pods = {"JobSet": pods_of_job_set, "PyTorchJob": pods_of_pytorch_job}[manifest["kind"]]
    for names, own in pods(manifest):
        print("\t".join([names, *own]))


if __name__ == "__main__":
    main(sys.argv[1])
