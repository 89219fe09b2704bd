"""One function with one callback: what its hook costs, and which registers it saves, spoils and needs."""
