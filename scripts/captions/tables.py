"""The tables of words and endings. Knows neither how a word is inflected nor what reads a row.

A noun's row is `article singular, plural = english[, plural[, pronoun]]`; `*` marks a weak noun (der Junge, den
Jungen). A verb's row is `third person [particle or preposition], infinitive = english`; an adjective's is
`german english`, with `/stem` where the endings join a changed one (dunkel/dunkl). What comes first is more usual.
"""

GENDERS = ("m", "f", "n")
ARTICLES = {"der": "m", "die": "f", "das": "n"}
PRONOUNS = {"m": "he", "f": "she", "n": ""}  # of people; "the child … it" reads oddly, so such a noun gets none
PEOPLE = ("adult", "child")

NOUNS = {
    "adult": """der Mann, Männer = man, men; die Frau, Frauen = woman, women; die Ärztin, Ärztinnen = doctor;
        der Koch, Köche = cook; der Bauer*, Bauern = farmer; der Polizist*, Polizisten = policeman, policemen;
        der Feuerwehrmann, Feuerwehrmänner = fireman, firemen; der Soldat*, Soldaten = soldier;
        der Tourist*, Touristen = tourist; der Student*, Studenten = student; der Musiker, Musiker = musician;
        die Malerin, Malerinnen = painter; der Fotograf*, Fotografen = photographer;
        die Lehrerin, Lehrerinnen = teacher; der Gärtner, Gärtner = gardener; die Tänzerin, Tänzerinnen = dancer;
        die Sängerin, Sängerinnen = singer; die Großmutter, Großmütter = grandmother;
        der Großvater, Großväter = grandfather; der Clown, Clowns = clown; die Kellnerin, Kellnerinnen = waitress;
        die Braut, Bräute = bride; die Dame, Damen = lady; der Zauberer, Zauberer = magician;
        der Fischer, Fischer = fisherman, fishermen; der Künstler, Künstler = artist;
        der Ingenieur, Ingenieure = engineer; die Sportlerin, Sportlerinnen = athlete""",
    "child": """der Junge*, Jungen = boy; das Mädchen, Mädchen = girl, girls, she;
        das Kind, Kinder = child, children; der Schüler, Schüler = pupil; der Teenager, Teenager = teenager""",
    "animal": """der Hund, Hunde = dog; die Katze, Katzen = cat; das Pferd, Pferde = horse; der Esel, Esel = donkey;
        die Ziege, Ziegen = goat; der Affe*, Affen = monkey; der Bär*, Bären = bear;
        der Elefant*, Elefanten = elephant; der Hase*, Hasen = hare; die Kuh, Kühe = cow; die Ente, Enten = duck;
        das Schwein, Schweine = pig; der Welpe*, Welpen = puppy; das Kaninchen, Kaninchen = rabbit;
        der Fuchs, Füchse = fox; das Huhn, Hühner = hen; der Wolf, Wölfe = wolf, wolves;
        die Maus, Mäuse = mouse, mice; das Fohlen, Fohlen = foal""",
    "toy": """der Ball, Bälle = ball; der Stock, Stöcke = stick; der Ring, Ringe = ring; das Seil, Seile = rope;
        die Puppe, Puppen = doll; der Luftballon, Luftballons = balloon; das Kissen, Kissen = pillow""",
    "clothing": """die Jacke, Jacken = jacket; der Mantel, Mäntel = coat; das Hemd, Hemden = shirt;
        der Schal, Schals = scarf, scarves; der Pullover, Pullover = sweater; das Kostüm, Kostüme = costume;
        die Uniform, Uniformen = uniform; die Weste, Westen = vest; der Anzug, Anzüge = suit""",
    "headwear": """der Hut, Hüte = hat; die Mütze, Mützen = cap; der Helm, Helme = helmet;
        die Maske, Masken = mask""",
    "readable": """das Buch, Bücher = book; die Zeitung, Zeitungen = newspaper; der Brief, Briefe = letter;
        die Zeitschrift, Zeitschriften = magazine; der Roman, Romane = novel; das Gedicht, Gedichte = poem""",
    "vehicle": """das Auto, Autos = car; das Fahrrad, Fahrräder = bicycle; der Bus, Busse = bus;
        der Zug, Züge = train; das Boot, Boote = boat; der Roller, Roller = scooter;
        das Motorrad, Motorräder = motorcycle; der Traktor, Traktoren = tractor; der Lastwagen, Lastwagen = truck;
        das Schiff, Schiffe = ship; das Flugzeug, Flugzeuge = airplane""",
    "food": """der Apfel, Äpfel = apple; die Orange, Orangen = orange; das Ei, Eier = egg;
        der Kuchen, Kuchen = cake; die Birne, Birnen = pear; die Banane, Bananen = banana;
        die Tomate, Tomaten = tomato; der Keks, Kekse = cookie; die Kartoffel, Kartoffeln = potato;
        die Zwiebel, Zwiebeln = onion; der Kürbis, Kürbisse = pumpkin; die Melone, Melonen = melon;
        die Karotte, Karotten = carrot""",
    "portable": """der Korb, Körbe = basket; der Eimer, Eimer = bucket; die Tasche, Taschen = bag;
        die Kiste, Kisten = crate; der Koffer, Koffer = suitcase; der Regenschirm, Regenschirme = umbrella;
        die Leiter, Leitern = ladder; der Stuhl, Stühle = chair; die Flagge, Flaggen = flag;
        die Kamera, Kameras = camera; die Pflanze, Pflanzen = plant; der Rucksack, Rucksäcke = backpack;
        die Lampe, Lampen = lamp; die Flasche, Flaschen = bottle; der Teller, Teller = plate;
        die Gitarre, Gitarren = guitar; die Geige, Geigen = violin; der Besen, Besen = broom;
        die Trommel, Trommeln = drum; die Trompete, Trompeten = trumpet; die Decke, Decken = blanket;
        die Schaufel, Schaufeln = shovel; der Spiegel, Spiegel = mirror; das Bild, Bilder = picture""",
    "nature": """der Park, Parks = park; der Garten, Gärten = garden; der Wald, Wälder = forest;
        der Strand, Strände = beach; der See, Seen = lake; der Fluss, Flüsse = river; der Teich, Teiche = pond;
        die Wiese, Wiesen = meadow; das Feld, Felder = field; der Hügel, Hügel = hill; der Weg, Wege = path;
        das Tal, Täler = valley""",
    "obstacle": """die Pfütze, Pfützen = puddle; der Graben, Gräben = ditch; der Bach, Bäche = stream;
        der Baumstamm, Baumstämme = log; die Hecke, Hecken = hedge""",
    "built": """die Mauer, Mauern = wall; der Zaun, Zäune = fence; das Tor, Tore = gate; die Bank, Bänke = bench;
        das Zelt, Zelte = tent; die Scheune, Scheunen = barn; die Hütte, Hütten = cabin; das Haus, Häuser = house""",
    "landmark": """der Baum, Bäume = tree; der Brunnen, Brunnen = fountain; die Statue, Statuen = statue;
        die Brücke, Brücken = bridge; die Kirche, Kirchen = church; die Straße, Straßen = street;
        der Platz, Plätze = square""",
    "indoor": """die Küche, Küchen = kitchen; die Bibliothek, Bibliotheken = library; das Museum, Museen = museum;
        das Zimmer, Zimmer = room; die Werkstatt, Werkstätten = workshop; das Restaurant, Restaurants = restaurant;
        das Büro, Büros = office; die Bühne, Bühnen = stage; der Balkon, Balkone = balcony;
        der Markt, Märkte = market; der Bahnhof, Bahnhöfe = station; der Flughafen, Flughäfen = airport;
        der Tunnel, Tunnel = tunnel""",
    "moment": """der Tag, Tage = day; der Morgen, Morgen = morning; der Nachmittag, Nachmittage = afternoon;
        der Abend, Abende = evening""",
}

_COLOURS = """rot red, blau blue, gelb yellow, grün green, weiß white, schwarz black, braun brown, grau gray,
    orangefarben orange, bunt colorful"""
ADJECTIVES = {
    "adult": """jung young, alt old, groß tall, stark strong, freundlich friendly, elegant elegant, müde/müd tired,
        fröhlich cheerful, neugierig curious, ernst serious, mutig brave, berühmt famous, schüchtern shy,
        schlank slim""",
    "child": """klein small, fröhlich cheerful, neugierig curious, müde/müd tired, mutig brave, schüchtern shy,
        frech cheeky, ernst serious, blond blond""",
    "animal": """klein small, groß big, jung young, alt old, schwarz black, weiß white, braun brown, grau gray,
        wild wild, schnell fast, nass wet, hungrig hungry, gefleckt spotted, schmutzig dirty, faul lazy,
        neugierig curious""",
    "toy": f"{_COLOURS}, klein small, groß big, alt old, neu new",
    "clothing": f"{_COLOURS}, alt old, neu new, elegant elegant, gestreift striped, warm warm, schmutzig dirty",
    "headwear": f"{_COLOURS}, alt old, neu new, elegant elegant, gestreift striped, schmutzig dirty",
    "readable": "alt old, neu new, lang long, kurz short, spannend exciting, lustig funny, interessant interesting",
    "vehicle": f"{_COLOURS}, alt old, neu new, schnell fast, langsam slow, klein small, groß big, teuer/teur expensive",
    "food": "frisch fresh, groß big, klein small, lecker delicious, riesig huge, teuer/teur expensive",
    "portable": f"{_COLOURS}, schwer heavy, leicht light, alt old, neu new, klein small, groß big, schön beautiful",
    "nature": "groß big, klein small, schön beautiful, ruhig quiet, einsam lonely",
    "obstacle": "groß big, klein small, breit wide, riesig huge",
    "built": "groß big, klein small, alt old, neu new, rot red, weiß white, grau gray, grün green",
    "landmark": "groß big, klein small, alt old, schön beautiful",
    "indoor": "groß big, klein small, alt old, neu new, leer empty, dunkel/dunkl dark, modern modern",
    "moment": "sonnig sunny, kalt cold, heiß hot, windig windy, regnerisch rainy, warm warm, neblig foggy",
}

# who does it | to what kinds of things | the verbs: selection keeps most captions plausible
VERBS = """
    person animal |  | schläft, schlafen = sleep; steht, stehen = stand; sitzt, sitzen = sit; liegt, liegen = lie
    person animal |  | wartet, warten = wait; spielt, spielen = play; läuft, laufen = run; springt, springen = jump
    person |  | arbeitet, arbeiten = work; singt, singen = sing; tanzt, tanzen = dance; lacht, lachen = laugh
    person |  | lächelt, lächeln = smile; zeichnet, zeichnen = draw; kniet, knien = kneel
    person |  | klatscht, klatschen = clap
    person | toy portable | trägt, tragen = carry; hält, halten = hold; versteckt, verstecken = hide
    person | clothing headwear | trägt, tragen = wear; wäscht, waschen = wash; verkauft, verkaufen = sell
    person | readable | liest, lesen = read; studiert, studieren = study
    person | vehicle | repariert, reparieren = repair; wäscht, waschen = wash; lenkt, lenken = steer
    person | food | isst, essen = eat; schneidet, schneiden = cut; probiert, probieren = taste
    person | readable vehicle food portable clothing headwear | kauft, kaufen = buy; bewundert, bewundern = admire
    person | toy | wirft, werfen = throw; fängt, fangen = catch
    person | animal | füttert, füttern = feed; streichelt, streicheln = pet; bürstet, bürsten = brush
    person | animal | führt, führen = lead
    person | person animal | fotografiert, fotografieren = photograph; umarmt, umarmen = hug; malt, malen = paint
    person | person | begrüßt, begrüßen = greet; tröstet, trösten = comfort; besucht, besuchen = visit
    animal | toy | fängt, fangen = catch; zieht, ziehen = pull; bewacht, bewachen = guard
    animal | food | frisst, fressen = eat; bewacht, bewachen = guard; stiehlt, stehlen = steal
    animal | animal | jagt, jagen = chase; beißt, beißen = bite
    person animal | person animal | beobachtet, beobachten = watch
    person | readable portable | sucht, suchen = look for
    person animal | toy food animal | sucht, suchen = look for
    person animal | person animal | folgt, folgen = follow
    person | person | hilft, helfen = help; dankt, danken = thank; gratuliert, gratulieren = congratulate
    person | person | winkt, winken = wave to; antwortet, antworten = answer
    person animal | toy animal | spielt mit, spielen = play with
    person animal | person | wartet auf, warten = wait for
    person | person | spricht mit, sprechen = talk to; tanzt mit, tanzen = dance with; lacht über, lachen = laugh at
    person | person animal toy vehicle portable | zeigt auf, zeigen = point at; träumt von, träumen = dream of
    person | vehicle | wartet auf, warten = wait for
    person | toy portable | hebt auf, aufheben = pick up; wirft weg, wegwerfen = throw away
    person | toy portable | legt hin, hinlegen = put down; hält hoch, hochhalten = hold up
    person | toy portable | packt aus, auspacken = unpack; nimmt mit, mitnehmen = take along
    person | clothing | zieht an, anziehen = put on; zieht aus, ausziehen = take off
    person | headwear | setzt auf, aufsetzen = put on; setzt ab, absetzen = take off
    person | clothing headwear | probiert an, anprobieren = try on; hängt auf, aufhängen = hang up
    person | readable | liest vor, vorlesen = read out; hebt auf, aufheben = pick up
    person | vehicle | hält an, anhalten = stop; probiert aus, ausprobieren = try out
    person | person | lädt ein, einladen = invite; ruft an, anrufen = call; hört zu, zuhören = listen to
    animal | toy food | trägt weg, wegtragen = carry away; bringt zurück, zurückbringen = bring back
    person animal | person animal vehicle | schaut an, anschauen = look at
"""
DATIVE_VERBS = ("helfen", "folgen", "danken", "gratulieren", "winken", "antworten", "zuhören")
VERB_PREPOSITIONS = {"mit": "dat", "von": "dat", "auf": "acc", "über": "acc"}
GIVING = """gibt, geben = give; zeigt, zeigen = show; bringt, bringen = bring; reicht, reichen = hand;
    verkauft, verkaufen = sell; leiht, leihen = lend; schickt, schicken = send"""
WORN = ("clothing", "headwear")
WEARING = "trägt, tragen = wear"
LIKING = "mag, mögen = like"
GIFTS = ("toy", "readable", "food", "portable")

# who is found there | prepositions of the place (dative) | nouns
PLACES = """
    person animal | in | in | Park Garten Wald Tal Scheune
    person animal | an | on | Strand
    person animal | an | by | See Fluss Teich Bach
    person animal | auf | in | Wiese Feld Platz
    person animal | auf | on | Hügel Weg Brücke Straße
    person animal | unter | under | Baum Brücke
    person animal | neben | next to | Brunnen Statue Haus Zaun Zelt Baum
    person animal | vor | in front of | Haus Kirche Scheune Tor Hütte
    person animal | hinter | behind | Hecke Mauer Zelt Hütte
    person | in | in | Küche Bibliothek Museum Zimmer Werkstatt Restaurant Büro
    person | auf | on | Bühne Balkon
    person | auf | at | Markt
    person | an | at | Bahnhof Flughafen
"""
# verbs of motion (*: ON_FOOT) | preposition and case | the English one | what closes the German path | where it leads
ON_FOOT = "läuft, laufen = run; geht, gehen = walk; schleicht, schleichen = sneak"
PATHS = """
    springt, springen = jump | über | acc | over |  | Mauer Zaun Bach Pfütze Baumstamm Graben Hecke
    klettert, klettern = climb | über | acc | over |  | Mauer Zaun Baumstamm Tor Hecke
    * | über | acc | across |  | Brücke Straße Wiese Feld Platz
    * | über | acc | over |  | Hügel
    * | durch | acc | through |  | Wald Park Garten Tunnel Tor Tal
    springt, springen = jump | in | acc | into |  | See Fluss Teich Bach Pfütze
    * | in | acc | into |  | Haus Garten Scheune Zelt Wald Tunnel Hütte
    kriecht, kriechen = crawl | durch | acc | through |  | Tunnel Hecke Zaun Graben
    kriecht, kriechen = crawl | unter | acc | under |  | Zaun Bank Hecke Brücke
    * | zu | dat | to |  | See Fluss Brunnen Brücke Kirche Baum Scheune Statue
    * | um | acc | around | herum | Baum Haus See Teich Brunnen Statue
    * | an | dat | along | entlang | Fluss Strand Straße Mauer Zaun Hecke
"""
# German preposition and case, English preposition of both ends | nouns
FROM_TO = """
    von, dat, from | zu, dat, to | See Fluss Brunnen Brücke Kirche Baum Scheune Haus Wald Strand Hügel
    aus, dat, out of | in, acc, into | Haus Garten Scheune Zelt Wald Hütte Park Tunnel
"""

TIMES = """am Mittag = at noon; in der Nacht = at night; um Mitternacht = at midnight; heute = today;
    jeden Tag = every day; jeden Morgen = every morning; jeden Abend = every evening; im Frühling = in spring;
    im Sommer = in summer; im Herbst = in autumn; im Winter = in winter; bei Sonnenaufgang = at sunrise;
    bei Sonnenuntergang = at sunset; nach dem Regen = after the rain; vor dem Gewitter = before the storm"""
WEEKDAYS = """Montag Monday, Dienstag Tuesday, Mittwoch Wednesday, Donnerstag Thursday, Freitag Friday,
    Samstag Saturday, Sonntag Sunday"""
MANNERS = "schnell quickly, langsam slowly, vorsichtig carefully, leise quietly, fröhlich happily, ruhig calmly"
STATES = """müde tired, hungrig hungry, neugierig curious, glücklich happy, durstig thirsty, krank sick, nass wet,
    allein alone, traurig sad, nervös nervous"""
WEATHER = """es regnet = it is raining; es schneit = it is snowing; es kalt ist = it is cold;
    es heiß ist = it is hot; die Sonne scheint = the sun is shining; der Wind weht = the wind is blowing"""
# German singular, plural; English singular, plural
MODALS = """will, wollen = wants to, want to; kann, können = can, can; muss, müssen = has to, have to;
    darf, dürfen = is allowed to, are allowed to; möchte, möchten = would like to, would like to"""
QUANTIFIERS = "zwei two, drei three, vier four, fünf five, viele many, einige some, mehrere several"
POSSESSIVES = {"he": "his", "she": "her", "it": "its", "they": "their"}

# columns: masculine, feminine, neuter, plural
DEFINITE = {
    "nom": ("der", "die", "das", "die"),
    "acc": ("den", "die", "das", "die"),
    "dat": ("dem", "der", "dem", "den"),
}
AFTER_EIN = {"nom": ("", "e", "", "e"), "acc": ("en", "e", "", "e"), "dat": ("em", "er", "em", "en")}
ADJECTIVE_ENDINGS = {
    "weak": {"nom": ("e", "e", "e", "en"), "acc": ("en", "e", "e", "en"), "dat": ("en", "en", "en", "en")},
    "mixed": {"nom": ("er", "e", "es", "en"), "acc": ("en", "e", "es", "en"), "dat": ("en", "en", "en", "en")},
    "strong": {"nom": ("er", "e", "es", "e"), "acc": ("en", "e", "es", "e"), "dat": ("em", "er", "em", "en")},
}
CONTRACTIONS = {
    ("an", "dem"): "am",
    ("in", "dem"): "im",
    ("zu", "dem"): "zum",
    ("von", "dem"): "vom",
    ("zu", "der"): "zur",
    ("in", "das"): "ins",
}
