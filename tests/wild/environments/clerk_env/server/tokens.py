"""A tokenizer of characters with the methods of those of transformers."""


class Characters:
    """One token a character."""

    def apply_chat_template(self, conversation, tokenize=True, return_tensors=None, **kwargs):
        text = "".join(f"{message['role']}: {message['content']}\n" for message in conversation)
        return [ord(character) for character in text] if tokenize else text

    def decode(self, token_ids, skip_special_tokens=False, **kwargs):
        return "".join(chr(token) for token in token_ids)
