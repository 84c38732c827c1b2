"""Monitoring in the training loops of other packages.

Each module imports its package when it is itself imported. Nothing else imports these packages:
`plimsoll.integrations.lightning`, `.transformers`, `.accelerate`, `.phiflow`, `.wandb`.
"""
