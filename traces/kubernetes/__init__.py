"""Objects of Kubernetes, as ``kubectl get -o json`` writes them: what the readers of Kueue, Volcano and pods share."""
