"""Live loops in which a letter, an accent, an ending or a comma is put right, in several languages."""

from __future__ import annotations

import random
import re
import unicodedata

from tests.breaker.series import Series
from tests.breaker.stock import Kind, approach, attended, heard, mended, paired, variations, words

FRENCH = (
    "L'été dernier, après la fête, Zoé a préféré rester près de la forêt où elle était née. Le château, "
    "dévasté par la tempête, fut réparé grâce à l'aide des élèves et des bénévoles. Même le préfet, "
    "très ému, a loué leur générosité.",
    "Le dîner a été décalé à vingt heures à cause de la grève. Veuillez prévenir les invités âgés, vérifier "
    "l'accès côté cour et régler le problème du dégât des eaux. Le gérant répète qu'il est désolé et gêné.",
)
GERMAN = (
    "Wir haben «das|dem|den» Bericht «an der|an die|der» Leitung «geschicken|geschickt|übergeben». Wegen "
    "«dem|den|des» schlechten «Wetter|Wetters» wird «die|das|der» Umzug auf «der|die|den» nächsten Montag "
    "«verlegen|verlegt|verschoben». Bitte geben Sie «die|der|den» Kollegen «kein|keinen|keine» Schlüssel, "
    "«das|den|die» wir nicht «nummeriert|registriert|erfasst» haben, und sagen Sie «ihn|sie|ihnen» Bescheid."
)
SPANISH = (
    "«Usted|Vosotros|Tú» «puede|podéis|puedes» «cambiar|modificar|anular» «su|vuestra|tu» reserva hasta "
    "«dos|tres|cinco» días antes «por la|del|de la» llegada. Si la habitación «es|fue|está» ocupada, "
    "«le|os|te» «ofrecimos|ofrecemos|ofreceremos» otra «por|con|para» «lo|el|la» misma noche, «mas|pero|y» "
    "el precio «está|es|será» distinto."
)
JAPANESE = (
    "お客様«が|に|は»ご注文«を|の|された»商品«が|を|は»、«明日|あさって|三日»«まで|に|までに»"
    "«届く|届きます|お届けします»。住所«を|に|が»«違う|間違う|異なる»場合«に|が|は»、"
    "«今日|本日|本日中»«に|は|にも»«連絡して|ご連絡|ご連絡を»«くれ|ください|お願いいたします»。"
    "送料«が|を|は»«五百円|六百円|無料»です。"
)
ARABIC = (
    "«السيدة|عزيزي|السيد» المدير، «نود|نريد|يسرنا» «إبلاغك|إعلامك|إخباركم» «أن|بأن|بأنّ» الاجتماع "
    "«سوف يكون|يكون|سيعقد» يوم «الأحد|الاثنين|الثلاثاء» «على|عند|في» الساعة «٩|١٠|١١» "
    "«ظهرا|مساء|صباحا» في «الغرفة|القاعة|المكتب» رقم «٣|٤|٧». "
    "«الرجاء|نرجو|يرجى» «إحضار|جلب|تقديم» «التقرير|الميزانية|العقد»."
)
KOREAN = (
    "«회의|모임|면담»«가|는|은» «저녁|오전|오후» «두|세|네» 시«로|에|부터» «3층|4층|5층» "
    "회의실«에|에게|에서» «시작한다|시작해요|시작합니다». 자료«는|이|를» «어제|오늘|미리» "
    "«읽고|보고|검토하고» «와|오세요|와 주십시오»."
)
ENGLISH = (
    "However, the council, which met on Monday, May 6, agreed, after a long, heated debate, to repair the "
    "old, narrow bridge, the mill, and the quay. Mr. Hale, the mayor, said, with some relief, that, weather "
    "permitting, the work, if funded, would begin in June, not July, and, he hoped, end in time, too, "
    "despite the price of steel, stone, and sand."
)
RULES = (
    "A client «may|should|must» send a token. A server «should|may|must not» log it and «may|should|must» "
    "answer within 5 s. A proxy «must|may not|may» cache the answer, but «may|should|must» drop it on error. "
    "An operator «may|must|should» rotate keys, and a key «may|should not|must not» be used twice. Tokens "
    "«should|may|must» expire. Errors «may|must|should» name the field and «should|may|must not» show its "
    "value. Retries «must|may|should» wait, and a client «may|should not|must not» retry after a 4xx answer."
)
ANAGRAMS = ("conversation", "permutations", "thunderstorm", "gingerbread", "constellation", "watercolour")
KEYS = words(
    "save cancel delete next back search print open close help login logout copy paste cut send reply draft "
    "attachment trash folder file view window new today"
)
STRINGS = {
    "de": words(
        "Speichern Abbrechen Löschen Weiter Zurück Suchen Drucken Öffnen Schließen Hilfe Anmelden Abmelden "
        "Kopieren Einfügen Ausschneiden Senden Antworten Entwurf Anhang Papierkorb Ordner Datei Ansicht "
        "Fenster Neu Heute"
    ),
    "fr": words(
        "Enregistrer Annuler Supprimer Suivant Retour Chercher Imprimer Ouvrir Fermer Aide Connexion "
        "Déconnexion Copier Coller Couper Envoyer Répondre Brouillon Annexe Corbeille Dossier Fichier "
        "Affichage Fenêtre Nouveau Aujourd’hui"
    ),
    "es": words(
        "Guardar Cancelar Eliminar Siguiente Atrás Buscar Imprimir Abrir Cerrar Ayuda Entrar Salir Copiar "
        "Pegar Cortar Enviar Responder Borrador Adjunto Papelera Carpeta Archivo Vista Ventana Nuevo Hoy"
    ),
    "ja": words(
        "保存 取消 削除 次へ 戻る 検索 印刷 開く 閉じる ヘルプ ログイン ログアウト コピー 貼付 切取 送信 "
        "返信 下書き 添付 ごみ箱 フォルダ ファイル 表示 ウィンドウ 新規 今日"
    ),
}


def accents(chance: random.Random, rounds: int) -> Series:
    """A French text gets its accents back, one by one; no other letter changes."""
    right = chance.choice(FRENCH)
    bare = [unicodedata.normalize("NFD", letter)[0] for letter in right]
    texts = mended(chance, bare, right, rounds)
    return Series(
        "accents", "", attended(chance, "Correcteur", texts, "Il manque encore des accents.", "Pas encore.")
    )


def german_endings(chance: random.Random, rounds: int) -> Series:
    """Articles, cases and participles of a German letter are corrected."""
    texts = variations(chance, GERMAN, rounds)
    replies = ("Noch ein Fehler.", "Fast. Bitte noch einmal prüfen.", "Der Fall stimmt noch nicht.")
    return Series("german_endings", "", attended(chance, "Schreiberin", texts, *replies))


def spanish_forms(chance: random.Random, rounds: int) -> Series:
    """Forms of address, tenses and prepositions of a Spanish notice."""
    texts = variations(chance, SPANISH, rounds)
    return Series(
        "spanish_forms", "", attended(chance, "Redactora", texts, "Todavía no.", "Revísalo otra vez.")
    )


def japanese_particles(chance: random.Random, rounds: int) -> Series:
    texts = variations(chance, JAPANESE, rounds)
    return Series(
        "japanese_particles",
        "",
        attended(chance, "担当", texts, "まだ不自然です。", "もう一度直してください。"),
    )


def arabic_letters(chance: random.Random, rounds: int) -> Series:
    texts = variations(chance, ARABIC, rounds)
    return Series(
        "arabic_letters", "", attended(chance, "الكاتب", texts, "ليس بعد.", "يرجى المراجعة مرة أخرى.")
    )


def korean_endings(chance: random.Random, rounds: int) -> Series:
    texts = variations(chance, KOREAN, rounds)
    return Series(
        "korean_endings", "", attended(chance, "작성자", texts, "아직 아닙니다.", "다시 고쳐 주세요.")
    )


def commas(chance: random.Random, rounds: int) -> Series:
    """Commas are put in or taken out; no word changes."""
    bare = ["" if sign == "," else sign for sign in ENGLISH]
    wrong, right = (bare, list(ENGLISH)) if chance.random() < 0.5 else (list(ENGLISH), bare)
    texts = mended(chance, wrong, right, rounds)
    return Series("commas", "", attended(chance, "Copy editor", texts, "Check the commas once more.", "No."))


def typos(chance: random.Random, rounds: int) -> Series:
    """Letters in the wrong order are put right, word by word."""
    right = re.split(r"(?<=\s)", ENGLISH)
    wrong = [
        word[0] + word[2] + word[1] + word[3:] if re.match(r"\w{3}", word) and word[1] != word[2] else word
        for word in right
    ]
    texts = mended(chance, wrong, right, rounds)
    return Series(
        "typos", "", attended(chance, "Proofreader", texts, "There is a typo left.", "Again, please.")
    )


def modal_verbs(chance: random.Random, rounds: int) -> Series:
    """The rules of a standard: may, should and must are weighed."""
    texts = variations(chance, RULES, rounds)
    return Series(
        "modal_verbs", "", attended(chance, "Committee", texts, "There is an objection.", "No consensus.")
    )


def anagrams(chance: random.Random, rounds: int) -> Series:
    """The same letters in another order each time."""
    letters = list(chance.choice(ANAGRAMS))
    form = chance.choice(("{}", "Is it “{}”?", "I try {}."))
    tried: list[str] = []
    while len(tried) < rounds:
        chance.shuffle(letters)
        word = "".join(letters)
        tried += [] if word in tried else [word]
    texts = [form.format(word) for word in tried]
    return Series(
        "anagrams", "", paired("Player", texts, "Keeper", [chance.choice(("No.", "Wrong order."))] * rounds)
    )


def locale_strings(chance: random.Random, rounds: int) -> Series:
    """A file of strings is translated: one entry a round, alone or within the whole file."""
    language = chance.choice(tuple(STRINGS))
    labels = STRINGS[language]
    style = chance.choice(("entry", "file", "count"))
    if style == "file":
        states = approach(chance, [["TODO", label] for label in labels], rounds)
        texts = [
            "\n".join(f'"{k}": "{word}"' for k, word in zip(KEYS, state, strict=True)) for state in states
        ]
        return Series("locale_strings", "", attended(chance, "Translator", texts, "TODO found."))
    places = chance.sample(range(len(KEYS)), rounds)
    texts = [f'"button.{KEYS[at]}": "{labels[at]}"' for at in places]
    if style == "entry":
        return Series(
            "locale_strings", "", heard(chance, "Translator", texts, "Owner", "Next string.", "好的。")
        )
    left = [f"{language}.json: {len(KEYS) - number} strings are missing" for number in range(rounds)]
    return Series("locale_strings", "", paired("Translator", ["Translated."] * rounds, "Linter", left))


KINDS: tuple[Kind, ...] = (
    accents,
    german_endings,
    spanish_forms,
    japanese_particles,
    arabic_letters,
    korean_endings,
    commas,
    typos,
    modal_verbs,
    anagrams,
    locale_strings,
)
