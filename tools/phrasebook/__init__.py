"""The grammar that generated the phrasebook of `dragoman demo`: `python -m tools.phrasebook` writes it again."""
