"""What an operator looks with: rules that find what is wrong, numbers for other tools.

Commands, the page and the worker call it. It reads only: it must never act on a job.
"""
