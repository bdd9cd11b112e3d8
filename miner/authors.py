"""Bots and people, by the names and addresses of authors.

Pure functions. A human must never be lost: a person who works for a maker of bots, bears `Jenkins` as
a name, or likes to be called a robot at a private address is no bot. `People` counts who is left.
"""

from __future__ import annotations

import re

from miner.wordlist import words

_MAX_NAME = 300

NOREPLY = re.compile(r"(?:\d{1,12}\+)?([\w.\[\]-]{1,60})@users\.noreply\.github\.com")
"""The address that GitHub gives whoever keeps his own private; group 1 is the login."""

_FREE_MAIL = re.compile(
    r"@(?:(?:gmail|googlemail|outlook|hotmail|live|yahoo|ymail|icloud|me|protonmail|proton|gmx|aol|fastmail"
    r"|yandex|mail|qq|163|126|foxmail|naver|web)\.[a-z.]{2,8}|users\.noreply\.github\.com)$"
    r"|\.(?:local|lan|localdomain|home|internal)$|^[^@]*$|@localhost$|@[^.@]*$"
)
"""Addresses that any person may choose: a word in them tells nothing about who is behind them."""

_BOT_WORDS = re.compile(r"(?:^|[\s_.-])(?:bot|robot)$|^bot[\s_-]")
_BOT_NAMES = words(
    """
    dependabot dependabot-preview dependabot-support renovate renovatebot renovate-bot greenkeeper
    greenkeeperio pyup pyup-bot pyup.io snyk-bot snyk-test snyk github-actions github-action
    allcontributors all-contributors imgbot imgbotapp codecov codecov-io codecov-commenter mergify
    mergifyio bors homu pre-commit-ci weblate transifex transifex-integration crowdin crowdin-bot
    deepsource-autofix deepsourcebot restyled-io restyled-commits whitesource whitesource-bolt lgtm-com
    semantic-release semantic-release-bot release-please release-drafter travis-ci travisci circleci
    appveyor stickler-ci codacy-badger codeclimate waffle-io gitter-badger the-gitter-badger
    readthedocs-assistant scala-steward nixpkgs-update r-ryantm facebook-github-bot copybara
    copybara-service copybara-github tensorflower-gardener tensorflow-jenkins googlebot gcf-owl-bot
    googleapis-publisher k8s-merge-robot k8s-ci-robot kubernetes-prow-robot kubernetes-publisher
    mozilla-pulsebot autorust rust-highfive rustbot rust-timer miss-islington bedevere-bot blurb_it
    the-knights-who-say-ni chromium-autoroll skia-flutter-autoroll engine-flutter-autoroll
    v8-ci-autoroll-builder llvmgnsyncbot autoroller gerritforge gerrit-code-review openstack-proposal-bot
    openstack-infra elasticmachine kibanamachine vercel-release-bot nx-cloud azure-pipelines
    azure-pipelines-bot dotnet-maestro dotnet-bot vsts-build microsoft-github-policy-service msftbot
    fossabot sonatype-lift sonarcloud backport-bot backportbot patchback meeseeksdev meeseeksmachine
    conda-forge-linter conda-forge-admin regro-cf-autotick-bot nodejs-github-bot npm-cli-bot
    svelte-changesets changeset-bot jetbrains-robot teamcity buildkite drone-ci woodpecker-ci gitlab-bot
    marge-bot project_bot support-bot syncbot
    """
)
"""Whole names, in lower case with a hyphen for every space."""

_MACHINE_NAMES = words("jenkins hudson ci buildbot cibot ci-bot ci-runner build-server autobuild automation")
"""Names of a machine that a person's computer may bear as well: they count with an address of its own."""

_BOT_ADDRESSES = re.compile(
    r"\[bot\]@|^(?:support|noreply|no-reply|bot)@(?:dependabot|renovateapp|whitesourcesoftware|greenkeeper|pyup"
    r"|snyk|weblate|travis-ci|mergify)\.|^(?:hosted@weblate|action@github|actions@github"
    r"|github-actions@github|imgbothelp@gmail|builds@travis-ci|support@greenkeeper)\."
    r"|^(?:bot|robot|noreply-bot|ci-bot|cibot|buildbot)@|^[\w.+-]{1,60}[._-](?:bot|robot)@"
)


def _folded(text: str) -> str:
    return " ".join(text[:_MAX_NAME].casefold().split())


def is_bot(name: str, email: str) -> bool:
    """Whether an author's name or address is that of a known bot, or calls itself one."""
    name, email = _folded(name), _folded(email)
    whole = name.replace(" ", "-")
    private = bool(_FREE_MAIL.search(email))
    if "[bot]" in name or whole in _BOT_NAMES:
        return True
    # `Ben Bot` with a mailbox anywhere is a person; a login that ends so was chosen to tell.
    if _BOT_WORDS.search(name) and not (private and " " in name and not NOREPLY.fullmatch(email)):
        return True
    known = _BOT_ADDRESSES.search(email)
    if known and (known[0].startswith(("[bot]", "imgbothelp")) or not private):
        return True
    return whole in _MACHINE_NAMES and not private


_NOBODY = words(
    """
    root unknown user admin administrator none null nobody noname anonymous default test ubuntu vagrant
    localhost me you name your-name no-author (no-author) developer dev author github invalid-email-address
    """
)
_NO_ADDRESS = re.compile(
    r"[^@]*|(?:root|user|you|me|unknown|none|nobody|admin)@(?:localhost|example\.\w+|none|unknown)[\w.]*"
    r"|(?:noreply|no-reply|devnull)@[\w.-]+|you@[\w.-]+|\S*@example\.(?:com|org|net)|@.*|.*@"
)


class People:
    """Counts people: identities that share a name or an address are one person.

    Names and addresses are compared without regard to case; GitHub's two forms of an address that is kept
    private (`123+login@...` and `login@...`) are one. What many people have in common, such as the name
    `root` or an address at `localhost`, joins nobody.
    """

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def _find(self, key: str) -> str:
        self._above.setdefault(key, key)
        while (up := self._above[key]) != key:
            # Halving the path keeps the cost of a call nearly constant.
            self._above[key] = self._above[up]
            key = up
        return key

    def add(self, name: str, email: str) -> None:
        """Take note of one identity."""
        name, email = _folded(name), _folded(email)
        if match := NOREPLY.fullmatch(email):
            email = f"{match[1]}@users.noreply.github.com"
        keys = []
        if name and name.replace(" ", "-") not in _NOBODY:
            keys.append(f"name {name}")
        if not _NO_ADDRESS.fullmatch(email):
            keys.append(f"address {email}")
        first, *rest = [self._find(key) for key in keys or [f"neither {name} {email}"]]
        for other in rest:
            self._above[max(first, other)] = min(first, other)

    def __len__(self) -> int:
        """How many people there are."""
        return sum(self._find(key) == key for key in list(self._above))
