"""An environment that remembers which variables were asked for, and those that the table of settings says."""

from support.documents import ALL_SETTINGS

KEYS_OF_JOBS = {"KIQBRIDGE_ENCRYPTION_KEYS", "KIQBRIDGE_ENCRYPTION_KEYS_FILE"}


class Watched(dict):
    """An environment without variables that remembers which were asked for."""

    def __init__(self):
        super().__init__()
        self.asked = set()

    def get(self, name, default=None):
        self.asked.add(name)
        return super().get(name, default)


def variables_read_by(reader):
    return {
        name
        for each in ALL_SETTINGS
        if reader in each.read_by
        for name in (*each.env, *filter(None, [each.provider]))
    }
