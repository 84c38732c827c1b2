"""Monitoring inside other people's training loops.

Each module imports its package when it is itself imported, and nothing else imports them:
`plimsoll.integrations.lightning`, `.transformers`, `.accelerate`, `.phiflow`, `.wandb`.
"""
