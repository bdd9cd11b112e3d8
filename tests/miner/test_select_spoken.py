"""The natural language of commit messages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from miner.spoken import LANGUAGES, plain_words, spoken, unwanted_language

ENGLISH = ("en",)


@pytest.mark.parametrize(
    "message",
    [
        "fix typo",
        "Fix NPE",
        "nits",
        "Simplify chrono_test",
        "Use std::move in dtor",
        "update jade dev dep",
        "Remove dup frag bytes",
        "Dedup compile check enforcement",
        "remove server override debug",
        "Convert nose skip syntax -> pytest skip syntax",
        "fix: prefer Referer header over Referrer",
        "use finalhandler for final response handling",
        "Cluster: barrer -> barrier in redis.conf.",
        "deps: do semver compatible upgrades",
        "style: delete extra space",
        "Bump serde_json 1.0.1 -> 1.0.2 (#42)",
        "[lldb] Fix const qualifiers",
        "Refactor AST visitor",
        "Set UTF-8 as default charset",
        "Añade tests",
        "Add support for names such as 中文 and Größe to the tokenizer",
        "Handle `Ошибка разбора строки в файле` in messages",
        "Parse https://ru.wikipedia.org/wiki/Синтаксический_анализ_текста",
        "Fix crash\n\nSigned-off-by: Алексей Иванов <a@example.com>\nReviewed-by: 王小明",
        "Fix output\n```\nошибка: не удалось открыть файл\n```",
        "",
        "\n\n",
        "#1234",
        "1.2.3",
    ],
)
def test_technical_english_and_what_cannot_be_told_is_kept(message: str) -> None:
    assert unwanted_language(message, ENGLISH) is None


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("修复解析空字符串时的崩溃", "zh"),
        ("fix: 修复解析错误", "zh"),
        ("feat(路由): 添加基于请求头的路由匹配功能", "zh"),
        ("空文字列を解析するときのクラッシュを修正", "ja"),
        ("플라스크 설정 오류를 수정", "ko"),
        ("Исправлена ошибка при разборе пустой строки", "Cyrillic"),
        ("Виправлено помилку у розборі рядка", "Cyrillic"),
        ("Διόρθωση σφάλματος στην ανάλυση", "el"),
        ("تم إصلاح خطأ في تحليل السلسلة", "Arabic"),
        ("Fehler beim Lesen einer leeren Datei behoben und Prüfung ergänzt", "de"),
        ("Corrige une erreur lors de la lecture d'un fichier vide", "fr"),
        ("Corrige el error al leer un archivo vacío en la caché", "es"),
        ("Corrige erro ao ler um arquivo vazio e adiciona validação", "pt"),
        ("Naprawiono błąd podczas wczytywania pustego pliku", "pl"),
        ("Boş dosya okunurken oluşan hata düzeltildi", "tr"),
        ("Corretto un errore durante la lettura di un file vuoto", "it"),
        ("Fout opgelost bij het lezen van een leeg bestand", "nl"),
        ("Opravena chyba při čtení prázdného souboru", "cs"),
        ("Sửa lỗi khi đọc tệp rỗng và thêm kiểm thử", "vi"),
        ("Правка\n\nSigned-off-by: Ada <ada@example.com>", "Cyrillic"),
    ],
)
def test_message_of_another_language_is_told(message: str, name: str) -> None:
    assert unwanted_language(message, ENGLISH) == name


def test_any_language_will_do_when_none_is_wanted() -> None:
    assert unwanted_language("Исправлена ошибка при разборе", ()) is None


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("Исправлена ошибка при разборе строки", ("en", "ru")),
        ("修复解析空字符串时的崩溃", ("zh",)),
        ("Corrige une erreur lors de la lecture d'un fichier vide", ("fr", "de")),
    ],
)
def test_message_of_a_wanted_language_is_kept(message: str, wanted: tuple[str, ...]) -> None:
    assert unwanted_language(message, wanted) is None


def test_english_is_told_where_it_is_not_wanted() -> None:
    assert unwanted_language("Fix the crash when a file is empty", ("fr",)) == "en"


def test_code_links_and_trailers_are_no_prose() -> None:
    message = (
        "Use `select *` in DBAPI2 via https://a.b/c now\n```\nx = 1\n```\nReviewed-by: Ada\nsee src/a.py"
    )
    assert plain_words(message) == ["Use", "in", "via", "now", "see"]


def test_each_language_that_can_be_told_is_one_of_the_model_or_of_a_script() -> None:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    labels = set(LanguageIdentifier.from_model_file(MODEL_FILE).labels)
    assert labels >= LANGUAGES


@given(st.text(max_size=300))
def test_any_text_is_judged_without_failing(text: str) -> None:
    found = spoken(text)
    assert found is None or (found.likely and sum(found.likely.values()) <= 1.001)


@pytest.mark.parametrize(
    "message", ["a" * 1_000_000, "` " * 200_000, "'" * 300_000, "的" * 300_000, "a-" * 200_000]
)
def test_hostile_message_takes_no_time(message: str) -> None:
    assert unwanted_language(message, ENGLISH) in (None, "zh")
