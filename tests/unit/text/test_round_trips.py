"""Text → tokens → text in languages that are written without spaces, from right to left, or both ways.

The joins learn from a few captions, and new ones come back exactly; most of their pairs of tokens are new too.
"""

import json

import numpy as np
import pytest

from transformer_cli.text.words import Joins, Tokenizer, learn_joins

# fmt: off
CAPTIONS = {  # language → what the joins are learned from
    "zh": (
        "两个男人在街上走路。",
        "一个女孩正在公园里唱歌。",
        "三只猫睡在沙发上。",
        "一位老人坐在长椅上，看着湖。",
        "孩子们在海滩上踢足球，笑得很开心。",
        "一辆红色的车停在房子前面。",
        "这个人有2条狗和10本书。",
        "她在买T恤，价格是30元。",
        "你喜欢这张照片吗？",
    ),
    "ja": (
        "二人の男性が通りを歩いている。",
        "女の子が公園で歌っています。",
        "三匹の猫がソファーの上で寝ている。",
        "おじいさんがベンチに座って、湖を見ている。",
        "子供たちがビーチでサッカーをしている。",
        "赤い車が家の前に止まっています。",
        "彼は犬を2匹と本を10冊持っている。",
        "彼女はTシャツを買った。",
        "この写真は好きですか？",
    ),
    "th": (
        "ผู้ชายสองคนกำลังเดินบนถนน",
        "เด็กผู้หญิงร้องเพลงในสวนสาธารณะ",
        "แมวสามตัวนอนหลับบนโซฟา",
        "ชายชรานั่งบนม้านั่ง และมองดูทะเลสาบ",
        "เด็กๆ เล่นฟุตบอลบนชายหาด",
        "รถสีแดงจอดอยู่หน้าบ้าน",
        "เขามีสุนัข 2 ตัวและหนังสือ 10 เล่ม",
        "เธอซื้อเสื้อยืดสีขาว",
        "คุณชอบรูปนี้ไหม?",
    ),
    "ar": (
        "رجلان يمشيان في الشارع.",
        "فتاة تغني في الحديقة.",
        "ثلاث قطط تنام على الأريكة.",
        "رجل عجوز يجلس على مقعد، وينظر إلى البحيرة.",
        "الأطفال يلعبون كرة القدم على الشاطئ.",
        "سيارة حمراء تقف أمام المنزل.",
        "عنده 2 من الكلاب و 10 كتب.",
        "هل تحب هذه الصورة؟",
    ),
    "he": (
        "שני גברים הולכים ברחוב.",
        "ילדה שרה בפארק.",
        "שלושה חתולים ישנים על הספה.",
        "איש זקן יושב על ספסל, ומביט באגם.",
        "הילדים משחקים כדורגל על החוף.",
        "מכונית אדומה עומדת מול הבית.",
        "יש לו 2 כלבים ו 10 ספרים.",
        "האם אתה אוהב את התמונה?",
    ),
}
HELD_OUT = {
    "zh": (
        "两只狗在雪地上玩耍。",
        "一名穿着蓝色外套的妇女骑自行车，后面跟着小狗。",
        "厨师切菜时戴着帽子吗？",
        "比赛开始后5分钟，观众都站了起来。",
        "他卖掉了4台旧电脑。",
    ),
    "ja": (
        "二匹の犬が雪の中で遊んでいる。",
        "青いコートを着た女性が自転車に乗り、犬が後ろを走る。",
        "料理人は帽子をかぶっていますか？",
        "試合が始まって5分後、観客は立ち上がった。",
    ),
    "th": (
        "สุนัขสองตัววิ่งเล่นในหิมะ",
        "ผู้หญิงสวมเสื้อคลุมสีน้ำเงินขี่จักรยาน",
        "พ่อครัวใส่หมวกหรือเปล่า?",
        "นักดนตรี 5 คนแสดงบนเวที",
    ),
    "ar": (
        "كلبان يلعبان في الثلج.",
        "امرأة ترتدي معطفا أزرق تركب دراجة، وخلفها كلب صغير.",
        "هل يرتدي الطباخ قبعة؟",
        "وقف 5 موسيقيين على المسرح.",
    ),
    "he": (
        "שני כלבים משתוללים בשלג.",
        "אישה במעיל כחול רוכבת על אופניים, ואחריה כלב קטן.",
        "האם הטבח חובש כובע?",
        "על הבמה עמדו 5 נגנים.",
    ),
}
# fmt: on
pytestmark = pytest.mark.filterwarnings("ignore:Dictionary.create:DeprecationWarning")  # spaCy's use of SudachiPy
FURTHER_PACKAGE = {"ja": "sudachipy", "th": "pythainlp"}


def tokenizer(language: str) -> Tokenizer:
    if language in FURTHER_PACKAGE:
        pytest.importorskip(FURTHER_PACKAGE[language])
    return Tokenizer(language, lowercase=True)


def learn(language: str) -> Joins:
    """The joins of CAPTIONS[language]."""
    split, ids = tokenizer(language), dict[str, int]()
    neighbours: list[tuple[int, int, bool]] = []
    for caption in map(split.split, CAPTIONS[language]):
        row = [ids.setdefault(word, len(ids)) for word in caption.words]
        neighbours += zip(row[:-1], row[1:], caption.glued[:-1], strict=True)
    left, right, glued = zip(*neighbours, strict=True)
    return learn_joins(list(ids), np.array(left, np.int32), np.array(right, np.int32), np.array(glued))


@pytest.mark.parametrize("language", CAPTIONS)
def test_new_captions_come_back_exactly(language: str) -> None:
    split, joins = tokenizer(language), learn(language)
    back = [joins.join(split.tokens(caption)) for caption in HELD_OUT[language]]
    assert back == [caption.lower() for caption in HELD_OUT[language]]


def test_scripts_that_are_glued_survive_json() -> None:
    joins = learn("zh")
    assert {("CJK", "CJK"), ("CJK", "DIGIT"), ("DIGIT", "CJK")} <= joins.glued_scripts
    assert Joins.from_json(json.loads(json.dumps(joins.as_json()))) == joins
