"""What a user sees on a terminal.

- `reporting`: one `Reporter` goes along with a run: phases, rates, time left and notes
- `tables`: tables that lose no word in a narrow terminal
- `terminal`: lines of a command; `safe_text`: text of servers without what a terminal or a browser would obey
"""
